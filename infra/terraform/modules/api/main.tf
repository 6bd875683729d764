module "function" {
  source = "../function"

  name            = "api"
  entry_point     = "api"
  description     = "the HTTP API"
  deployment      = var.deployment
  timeout_seconds = var.timeout_seconds
  concurrency     = 80
  min_instances   = var.min_instances
  max_instances   = var.max_instances
  ingress         = "ALLOW_ALL"
  invokers        = var.invokers

  permissions = concat(
    [
      "datastore.entities.create",
      "datastore.entities.get",
      "datastore.entities.list",
      "datastore.entities.update",
      "pubsub.subscriptions.consume",
      "pubsub.subscriptions.create",
      "pubsub.subscriptions.delete",
      "pubsub.topics.attachSubscription",
      "pubsub.topics.create",
      "pubsub.topics.publish",
      "secretmanager.secrets.create",
    ],
    var.builds ? ["cloudbuild.builds.create", "cloudbuild.builds.list", "cloudbuild.builds.update"] : [],
  )
  bucket_permissions = [
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
  ]
}
