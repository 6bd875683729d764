resource "google_storage_bucket" "blobs" {
  # checkov:skip=CKV_GCP_62: what is read there is in the audit log; an access log would need another bucket
  project                     = var.project_id
  name                        = "${var.project_id}-xmcloud"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = !var.delete_protection

  versioning {
    enabled = true
  }

  # Versions protect already, and can be looked at.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  # Parts of an upload that nobody completed.
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age            = 3
      matches_prefix = ["uploads/"]
    }
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = 1
      matches_prefix             = ["uploads/"]
    }
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 3
    }
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age            = 90
      matches_prefix = ["build-logs/"]
    }
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = 7
    }
  }

  dynamic "encryption" {
    for_each = var.kms_key[*]

    content {
      default_kms_key_name = encryption.value
    }
  }
}
