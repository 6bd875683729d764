output "uri" {
  description = "Where the API is."
  value       = module.function.uri
}
