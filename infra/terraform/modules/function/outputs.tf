output "name" {
  description = "Of the function and of the Cloud Run service that it is."
  value       = google_cloudfunctions2_function.this.name
}

output "uri" {
  description = "Where it is called."
  value       = google_cloudfunctions2_function.this.service_config[0].uri
}

output "member" {
  description = "Its service account, as a member of roles."
  value       = google_service_account.this.member
}
