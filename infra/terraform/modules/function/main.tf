locals {
  role_id = replace("xmcloud-${var.name}", "-", "_")
}

resource "google_service_account" "this" {
  project      = var.deployment.project_id
  account_id   = "xmcloud-${var.name}"
  display_name = "xmcloud: ${var.description}"
}

resource "google_project_iam_custom_role" "project" {
  project     = var.deployment.project_id
  role_id     = local.role_id
  title       = "xmcloud ${var.name}"
  description = "What xmcloud-${var.name} uses in the project"
  permissions = var.permissions
}

resource "google_project_iam_member" "project" {
  project = var.deployment.project_id
  role    = google_project_iam_custom_role.project.id
  member  = google_service_account.this.member
}

resource "google_project_iam_custom_role" "bucket" {
  count = length(var.bucket_permissions) > 0 ? 1 : 0

  project     = var.deployment.project_id
  role_id     = "${local.role_id}_blobs"
  title       = "xmcloud ${var.name} blobs"
  description = "What xmcloud-${var.name} uses in the bucket of blobs"
  permissions = var.bucket_permissions
}

resource "google_storage_bucket_iam_member" "bucket" {
  count = length(var.bucket_permissions) > 0 ? 1 : 0

  bucket = var.deployment.bucket
  role   = google_project_iam_custom_role.bucket[0].id
  member = google_service_account.this.member
}

resource "google_secret_manager_secret_iam_member" "token" {
  project   = var.deployment.project_id
  secret_id = var.deployment.token_secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this.member
}

resource "google_cloudfunctions2_function" "this" {
  # checkov:skip=CKV2_GCP_10: a check of first-generation functions; a second-generation one has HTTPS only
  project      = var.deployment.project_id
  location     = var.deployment.region
  name         = "xmcloud-${var.name}"
  description  = var.description
  kms_key_name = var.deployment.kms_key

  build_config {
    runtime           = "python312"
    entry_point       = var.entry_point
    docker_repository = var.deployment.repository
    service_account   = var.deployment.build_account

    source {
      storage_source {
        bucket = var.deployment.source_bucket
        object = var.deployment.source_object
      }
    }
  }

  service_config {
    available_cpu                    = "1"
    available_memory                 = var.memory
    timeout_seconds                  = var.timeout_seconds
    max_instance_request_concurrency = var.concurrency
    min_instance_count               = var.min_instances
    max_instance_count               = var.max_instances
    ingress_settings                 = var.ingress
    service_account_email            = google_service_account.this.email
    environment_variables            = var.deployment.environment
    vpc_connector                    = var.deployment.connector
    vpc_connector_egress_settings    = var.deployment.connector == null ? null : "PRIVATE_RANGES_ONLY"

    secret_volumes {
      project_id = var.deployment.project_id
      secret     = var.deployment.token_secret
      mount_path = var.deployment.environment.XMCLOUD_HOME

      versions {
        version = var.deployment.token_version
        path    = "token"
      }
    }
  }

  depends_on = [google_secret_manager_secret_iam_member.token]
}

resource "google_cloud_run_v2_service_iam_member" "invokers" {
  for_each = var.invokers

  project  = var.deployment.project_id
  location = var.deployment.region
  name     = google_cloudfunctions2_function.this.name
  role     = "roles/run.invoker"
  member   = each.value
}
