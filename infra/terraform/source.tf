# The functions/ folder as it stands, named by its content.
data "archive_file" "functions" {
  type             = "zip"
  source_dir       = "${path.module}/../../functions"
  excludes         = ["**/__pycache__/**", "**/*.pyc"]
  output_file_mode = "0644"
  output_path      = "${path.root}/.build/functions.zip"
}

resource "google_storage_bucket" "source" {
  # checkov:skip=CKV_GCP_62: what is read there is in the audit log; an access log would need another bucket
  name                        = "${var.project_id}-xmcloud-source"
  project                     = var.project_id
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true

  versioning {
    enabled = true
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = 30
    }
  }

  dynamic "encryption" {
    for_each = local.kms_key[*]

    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [google_project_service.apis]
}

resource "google_storage_bucket_object" "functions" {
  name   = "functions-${data.archive_file.functions.output_sha256}.zip"
  bucket = google_storage_bucket.source.name
  source = data.archive_file.functions.output_path
}

# Images of the functions themselves, made by Cloud Functions.
resource "google_artifact_registry_repository" "functions" {
  project       = var.project_id
  location      = var.region
  repository_id = "xmcloud-functions"
  format        = "DOCKER"
  description   = "Images of xmcloud's functions"
  kms_key_name  = local.kms_key

  cleanup_policies {
    id     = "delete-old"
    action = "DELETE"

    condition {
      older_than = "604800s"
    }
  }

  cleanup_policies {
    id     = "keep-newest"
    action = "KEEP"

    most_recent_versions {
      keep_count = 3
    }
  }

  depends_on = [google_project_service.apis]
}

resource "google_service_account" "functions_build" {
  project      = var.project_id
  account_id   = "xmcloud-functions-build"
  display_name = "xmcloud: builds the functions"

  depends_on = [google_project_service.apis]
}

resource "google_project_iam_member" "functions_build" {
  project = var.project_id
  role    = "roles/logging.logWriter"
  member  = google_service_account.functions_build.member
}

resource "google_artifact_registry_repository_iam_member" "functions_build" {
  project    = var.project_id
  location   = var.region
  repository = google_artifact_registry_repository.functions.name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.functions_build.member
}

resource "google_storage_bucket_iam_member" "functions_build" {
  bucket = google_storage_bucket.source.name
  role   = "roles/storage.objectViewer"
  member = google_service_account.functions_build.member
}

# From here on Cloud Functions can build what is in the archive.
resource "terraform_data" "buildable" {
  depends_on = [
    google_artifact_registry_repository_iam_member.functions_build,
    google_project_iam_member.functions_build,
    google_storage_bucket_iam_member.functions_build,
  ]
}
