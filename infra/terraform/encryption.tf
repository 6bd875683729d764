# Whoever keeps something here must be able to use the key.
resource "google_kms_crypto_key_iam_member" "agents" {
  for_each = var.kms_key == null ? {} : local.agents

  crypto_key_id = var.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value

  depends_on = [google_project_service.apis]
}
