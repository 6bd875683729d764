# No key file: the machine's own token becomes one of the workers' account.
resource "google_iam_workload_identity_pool" "workers" {
  count = var.worker_identity == null ? 0 : 1

  project                   = var.project_id
  workload_identity_pool_id = "xmcloud-workers"
  display_name              = "xmcloud workers"
}

resource "google_iam_workload_identity_pool_provider" "workers" {
  count = var.worker_identity == null ? 0 : 1

  project                            = var.project_id
  workload_identity_pool_id          = google_iam_workload_identity_pool.workers[0].workload_identity_pool_id
  workload_identity_pool_provider_id = "workers"
  display_name                       = "xmcloud workers"
  attribute_condition                = var.worker_identity.attribute_condition
  attribute_mapping                  = { "google.subject" = "assertion.sub" }

  oidc {
    issuer_uri        = var.worker_identity.issuer_uri
    allowed_audiences = var.worker_identity.allowed_audiences
  }
}

resource "google_service_account_iam_member" "workers" {
  count = var.worker_identity == null ? 0 : 1

  service_account_id = google_service_account.workers.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.workers[0].name}/*"
}
