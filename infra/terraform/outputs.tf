output "api_url" {
  description = "Where the API is: XMCLOUD_URL of clients and workers."
  value       = local.api_url
}

output "token_secret" {
  description = "The secret that holds the control plane's token: XMCLOUD_TOKEN of clients and workers."
  value       = module.data.token_secret
}

output "token_command" {
  description = "Prints the token."
  value       = "gcloud secrets versions access ${module.data.token_version} --secret ${module.data.token_secret} --project ${var.project_id}"
}

output "project_id" {
  description = "The project: GOOGLE_CLOUD_PROJECT of workers that pull directly."
  value       = var.project_id
}

output "bucket" {
  description = "The bucket of archives, logs, checkpoints and outputs."
  value       = module.data.bucket
}

output "registry" {
  description = "Where built images go; null without builds."
  value       = module.build.registry
}

output "worker_service_account" {
  description = "Whom workers outside Google Cloud act as."
  value       = module.workers.account
}

output "worker_identity_provider" {
  description = "The audience of the workers' own tokens, for `gcloud iam workload-identity-pools create-cred-config`; null without worker_identity."
  value       = module.workers.identity_provider
}

output "dashboard" {
  description = "The dashboard's page."
  value       = module.observability.dashboard
}
