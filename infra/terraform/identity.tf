# Pub/Sub calls functions in this name.
resource "google_service_account" "pusher" {
  project      = var.project_id
  account_id   = "xmcloud-pusher"
  display_name = "xmcloud: calls functions with messages"

  depends_on = [google_project_service.apis]
}

resource "google_service_account_iam_member" "pubsub_signs" {
  service_account_id = google_service_account.pusher.name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = local.agents.pubsub
}
