output "sweep" {
  description = "The sweep's service account, as a member of roles."
  value       = module.sweep.member
}
