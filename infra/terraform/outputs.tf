output "api_url" {
  description = "Where the API is: what `xmcloud login` and workers are told."
  value       = local.api_url
}

output "audience" {
  description = "What the ID tokens of service accounts are made out to."
  value       = local.run_url
}

output "project_id" {
  description = "The project: GOOGLE_CLOUD_PROJECT of workers that pull directly."
  value       = var.project_id
}

output "region" {
  description = "Where the API is."
  value       = var.region
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
