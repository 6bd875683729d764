output "registry" {
  description = "Where images go; null without builds."
  value       = one([for each in google_artifact_registry_repository.images : "${var.region}-docker.pkg.dev/${var.project_id}/${each.repository_id}"])
}

output "account" {
  description = "Whom builds run as; null without builds."
  value       = one(google_service_account.builds[*].email)
}

output "images" {
  description = "The repository of images; null without builds."
  value       = one(google_artifact_registry_repository.images[*].name)
}
