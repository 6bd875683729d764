output "account" {
  description = "The workers' service account."
  value       = google_service_account.workers.email
}

output "invokers" {
  description = "Who calls the API: members of roles, under names that are known beforehand."
  value = merge(
    { workers = google_service_account.workers.member },
    { for each in google_service_account.vertex : "vertex" => each.member },
  )
}

output "identity_provider" {
  description = "The audience of the workers' own tokens; null without worker_identity."
  value       = one([for each in google_iam_workload_identity_pool_provider.workers : "//iam.googleapis.com/${each.name}"])
}

output "vertex_email" {
  description = "Whom jobs on Vertex AI run as; null without vertex."
  value       = one(google_service_account.vertex[*].email)
}

output "vertex_account" {
  description = "The same as a resource; null without vertex."
  value       = one(google_service_account.vertex[*].name)
}
