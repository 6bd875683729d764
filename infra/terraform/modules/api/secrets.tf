# The secrets of jobs, by the beginning of their ids, and no other: not the signing secret either.
resource "google_project_iam_custom_role" "secrets" {
  project     = var.deployment.project_id
  role_id     = "xmcloud_api_secrets"
  title       = "xmcloud api secrets"
  description = "What xmcloud-api uses of the secrets of jobs"
  permissions = [
    "secretmanager.secrets.delete",
    "secretmanager.versions.access",
    "secretmanager.versions.add",
    "secretmanager.versions.destroy",
    "secretmanager.versions.list",
  ]
}

resource "google_project_iam_member" "secrets" {
  project = var.deployment.project_id
  role    = google_project_iam_custom_role.secrets.id
  member  = module.function.member

  condition {
    title      = "xmcloud secrets of jobs"
    expression = "resource.name.startsWith(\"projects/${var.project_number}/secrets/xmcloud-secret_\")"
  }
}
