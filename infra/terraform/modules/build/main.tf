resource "google_artifact_registry_repository" "images" {
  count = var.builds == null ? 0 : 1

  project       = var.project_id
  location      = var.region
  repository_id = "xmcloud"
  format        = "DOCKER"
  description   = "Images of jobs"
  kms_key_name  = var.kms_key

  cleanup_policies {
    id     = "delete-old"
    action = "DELETE"

    condition {
      older_than = "${var.builds.keep_days * 86400}s"
    }
  }

  cleanup_policies {
    id     = "keep-newest"
    action = "KEEP"

    most_recent_versions {
      keep_count = 5
    }
  }
}

resource "google_artifact_registry_repository_iam_member" "builder" {
  count = var.builds == null ? 0 : 1

  project    = var.project_id
  location   = var.region
  repository = google_artifact_registry_repository.images[0].name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.builds[0].member
}

module "build_event" {
  source = "../function"
  count  = var.builds == null ? 0 : 1

  name            = "build-event"
  entry_point     = "build_event"
  description     = "what Cloud Build tells of builds"
  deployment      = var.deployment
  timeout_seconds = 540
  concurrency     = 10
  max_instances   = 3
  invokers        = { pusher = "serviceAccount:${var.pusher}" }

  permissions = [
    "cloudbuild.builds.create",
    "cloudbuild.builds.get",
    "cloudbuild.builds.list",
    "cloudbuild.builds.update",
    "datastore.entities.create",
    "datastore.entities.get",
    "datastore.entities.list",
    "datastore.entities.update",
    "pubsub.topics.publish",
  ]
  bucket_permissions = ["storage.objects.get", "storage.objects.list"]
}

module "events" {
  source = "../event"
  count  = var.builds == null ? 0 : 1

  project_id   = var.project_id
  name         = "cloud-builds"
  topic        = var.events
  uri          = module.build_event[0].uri
  pusher       = var.pusher
  pubsub_agent = var.pubsub_agent
  kms_key      = var.kms_key
}
