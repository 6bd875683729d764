# What the tokens of attempts are derived from. It is made here, is in no state and in no plan.
ephemeral "random_password" "token" {
  length  = 48
  special = false
}

resource "google_secret_manager_secret" "token" {
  project   = var.project_id
  secret_id = "xmcloud-token"

  replication {
    user_managed {
      replicas {
        location = var.region

        dynamic "customer_managed_encryption" {
          for_each = var.kms_key[*]

          content {
            kms_key_name = customer_managed_encryption.value
          }
        }
      }
    }
  }
}

resource "google_secret_manager_secret_version" "token" {
  secret                 = google_secret_manager_secret.token.id
  secret_data_wo         = ephemeral.random_password.token.result
  secret_data_wo_version = var.token_version

  lifecycle {
    create_before_destroy = true
  }
}
