module "dispatch" {
  source = "../function"
  count  = var.vertex ? 1 : 0

  name            = "dispatch"
  entry_point     = "dispatch"
  description     = "from the queues to Vertex AI"
  deployment      = var.deployment
  timeout_seconds = 540
  concurrency     = 10
  max_instances   = 3
  invokers        = { pusher = "serviceAccount:${var.pusher}" }

  permissions = [
    "aiplatform.customJobs.cancel",
    "aiplatform.customJobs.create",
    "datastore.entities.create",
    "datastore.entities.get",
    "datastore.entities.list",
    "datastore.entities.update",
    "pubsub.topics.publish",
  ]
}

# The target's copy of every permit. Like those of pools, it has no retry policy and no dead letters;
# a push is answered once the jobs are submitted.
resource "google_pubsub_subscription" "permits" {
  for_each = var.vertex ? var.queues : {}

  project                    = var.deployment.project_id
  name                       = "${each.value}.vertex"
  topic                      = "projects/${var.deployment.project_id}/topics/${each.value}"
  filter                     = "attributes.audience = \"vertex\" OR NOT attributes:audience"
  ack_deadline_seconds       = 600
  message_retention_duration = "604800s"

  push_config {
    # The parameter is the one that triggers of functions set: it makes messages CloudEvents.
    push_endpoint = "${module.dispatch[0].uri}?__GCP_CloudEventsMode=CUSTOM_PUBSUB_${urlencode("projects/${var.deployment.project_id}/topics/${each.value}")}"

    oidc_token {
      service_account_email = var.pusher
      audience              = module.dispatch[0].uri
    }
  }

  expiration_policy {
    ttl = ""
  }
}

module "platform_event" {
  source = "../function"
  count  = var.vertex ? 1 : 0

  name            = "platform-event"
  entry_point     = "platform_event"
  description     = "what Vertex AI tells of jobs"
  deployment      = var.deployment
  timeout_seconds = 540
  concurrency     = 10
  max_instances   = 3
  invokers        = { pusher = "serviceAccount:${var.pusher}" }

  permissions = [
    "aiplatform.customJobs.cancel",
    "aiplatform.customJobs.create",
    "aiplatform.customJobs.get",
    "datastore.entities.create",
    "datastore.entities.get",
    "datastore.entities.list",
    "datastore.entities.update",
    "pubsub.topics.publish",
  ]
}

module "platform_events" {
  source = "../event"
  count  = var.vertex ? 1 : 0

  project_id   = var.deployment.project_id
  name         = "platform-events"
  topic        = var.events
  uri          = module.platform_event[0].uri
  pusher       = var.pusher
  pubsub_agent = var.pubsub_agent
  kms_key      = var.deployment.kms_key
}

# What the platform says of a job, without what the job itself prints: that would be an event a line.
resource "google_logging_project_sink" "platform_events" {
  count = var.vertex ? 1 : 0

  project                = var.deployment.project_id
  name                   = "xmcloud-platform-events"
  destination            = "pubsub.googleapis.com/projects/${var.deployment.project_id}/topics/${var.events}"
  filter                 = "resource.type=\"ml_job\" AND NOT resource.labels.task_name:\"workerpool\""
  unique_writer_identity = true
}

resource "google_pubsub_topic_iam_member" "sink_publishes" {
  count = var.vertex ? 1 : 0

  project = var.deployment.project_id
  topic   = var.events
  role    = "roles/pubsub.publisher"
  member  = google_logging_project_sink.platform_events[0].writer_identity
}

# Whoever submits a job has it run as the jobs' own account.
resource "google_service_account_iam_member" "submitters" {
  for_each = var.vertex ? {
    dispatch       = module.dispatch[0].member
    platform-event = module.platform_event[0].member
    sweep          = module.sweep.member
  } : {}

  service_account_id = var.vertex_runs_as
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}
