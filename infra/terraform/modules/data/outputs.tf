output "bucket" {
  description = "The bucket of blobs."
  value       = google_storage_bucket.blobs.name
}

output "token_secret" {
  description = "The secret that tokens of attempts are derived from."
  value       = google_secret_manager_secret.token.secret_id
}

output "token_version" {
  description = "Its version that is in force."
  value       = google_secret_manager_secret_version.token.version
}
