# Of jobs on Vertex AI that name no account: their checkpoints, outputs, image and log.
resource "google_service_account" "vertex" {
  count = var.vertex ? 1 : 0

  project      = var.project_id
  account_id   = "xmcloud-vertex"
  display_name = "xmcloud: jobs on Vertex AI"
}

resource "google_storage_bucket_iam_member" "vertex" {
  for_each = var.vertex ? toset(["checkpoints", "output"]) : []

  bucket = var.bucket
  role   = "roles/storage.objectUser"
  member = google_service_account.vertex[0].member

  condition {
    title      = "xmcloud ${each.value}"
    expression = "resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/${each.value}/\")"
  }
}

# Their folders are listed, and mounted, by way of the whole bucket.
resource "google_project_iam_custom_role" "lists" {
  count = var.vertex ? 1 : 0

  project     = var.project_id
  role_id     = "xmcloud_vertex_lists"
  title       = "xmcloud vertex lists"
  description = "Names of objects in the bucket of blobs, for jobs on Vertex AI"
  permissions = ["storage.buckets.get", "storage.objects.list"]
}

resource "google_storage_bucket_iam_member" "lists" {
  count = var.vertex ? 1 : 0

  bucket = var.bucket
  role   = google_project_iam_custom_role.lists[0].id
  member = google_service_account.vertex[0].member
}

resource "google_project_iam_member" "vertex_logs" {
  count = var.vertex ? 1 : 0

  project = var.project_id
  role    = "roles/logging.logWriter"
  member  = google_service_account.vertex[0].member
}

resource "google_artifact_registry_repository_iam_member" "vertex" {
  count = var.vertex && var.builds ? 1 : 0

  project    = var.project_id
  location   = var.region
  repository = var.images
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.vertex[0].member
}
