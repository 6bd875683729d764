# Whom builds run as: what a Dockerfile says is done with these rights.
resource "google_service_account" "builds" {
  count = var.builds == null ? 0 : 1

  project      = var.project_id
  account_id   = "xmcloud-builds"
  display_name = "xmcloud: builds of images"
}

# Reads the archive and writes its log.
resource "google_storage_bucket_iam_member" "builds" {
  for_each = var.builds == null ? {} : { content = "roles/storage.objectViewer", build-logs = "roles/storage.objectUser" }

  bucket = var.bucket
  role   = each.value
  member = google_service_account.builds[0].member

  condition {
    title      = "xmcloud ${each.key}"
    expression = "resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/${each.key}/\")"
  }
}

# Cloud Build looks at the bucket of logs before.
resource "google_project_iam_custom_role" "looks" {
  count = var.builds == null ? 0 : 1

  project     = var.project_id
  role_id     = "xmcloud_builds_looks"
  title       = "xmcloud builds looks"
  description = "The bucket of blobs itself, for builds of images"
  permissions = ["storage.buckets.get"]
}

resource "google_storage_bucket_iam_member" "looks" {
  count = var.builds == null ? 0 : 1

  bucket = var.bucket
  role   = google_project_iam_custom_role.looks[0].id
  member = google_service_account.builds[0].member
}

# Whoever submits a build has it run as this account.
resource "google_service_account_iam_member" "submitters" {
  for_each = var.builds == null ? {} : merge(var.submitters, { build-event = module.build_event[0].member })

  service_account_id = google_service_account.builds[0].name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}
