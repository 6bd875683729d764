output "member" {
  description = "Its service account, as a member of roles."
  value       = module.function.member
}
