module "sweep" {
  source = "../function"

  name            = "sweep"
  entry_point     = "sweep"
  description     = "what must happen though nobody asks"
  deployment      = var.deployment
  timeout_seconds = 300
  concurrency     = 1
  max_instances   = 2
  invokers        = { scheduler = google_service_account.scheduler.member }

  permissions = concat(
    [
      "datastore.entities.create",
      "datastore.entities.get",
      "datastore.entities.list",
      "datastore.entities.update",
      "pubsub.subscriptions.delete",
      "pubsub.topics.publish",
    ],
    var.builds ? [
      "cloudbuild.builds.create",
      "cloudbuild.builds.get",
      "cloudbuild.builds.list",
      "cloudbuild.builds.update",
    ] : [],
    var.vertex ? [
      "aiplatform.customJobs.cancel",
      "aiplatform.customJobs.create",
      "aiplatform.customJobs.get",
      "aiplatform.customJobs.list",
    ] : [],
  )
  bucket_permissions = var.builds ? ["storage.objects.get", "storage.objects.list"] : []
}

resource "google_service_account" "scheduler" {
  project      = var.deployment.project_id
  account_id   = "xmcloud-scheduler"
  display_name = "xmcloud: calls the sweep"
}

# The entry point takes CloudEvents; what this one says does not matter.
resource "google_cloud_scheduler_job" "sweep" {
  project          = var.deployment.project_id
  region           = var.deployment.region
  name             = "xmcloud-sweep"
  description      = "Leases that ran out, permits and events that got lost"
  schedule         = "* * * * *"
  time_zone        = "Etc/UTC"
  attempt_deadline = "300s"

  retry_config {
    retry_count = 0
  }

  http_target {
    http_method = "POST"
    uri         = module.sweep.uri
    body        = base64encode(jsonencode({ message = {} }))
    headers = {
      "Content-Type"   = "application/json"
      "ce-id"          = "sweep"
      "ce-source"      = "//cloudscheduler.googleapis.com/xmcloud-sweep"
      "ce-specversion" = "1.0"
      "ce-type"        = "xmcloud.sweep"
    }

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      audience              = module.sweep.uri
    }
  }
}
