# Of workers on machines of one's own. They speak HTTP to the API, with ID tokens of this account.
resource "google_service_account" "workers" {
  project      = var.project_id
  account_id   = "xmcloud-worker"
  display_name = "xmcloud: workers"
}

# In the project and not by subscription: each session has one of its own, made when it begins.
resource "google_project_iam_custom_role" "permits" {
  count = var.pull_directly ? 1 : 0

  project     = var.project_id
  role_id     = "xmcloud_worker"
  title       = "xmcloud worker"
  description = "What workers use that pull from Pub/Sub"
  permissions = ["pubsub.subscriptions.consume"]
}

resource "google_project_iam_member" "permits" {
  count = var.pull_directly ? 1 : 0

  project = var.project_id
  role    = google_project_iam_custom_role.permits[0].id
  member  = google_service_account.workers.member
}

resource "google_artifact_registry_repository_iam_member" "workers" {
  count = var.builds ? 1 : 0

  project    = var.project_id
  location   = var.region
  repository = var.images
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.workers.member
}
