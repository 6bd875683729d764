output "queues" {
  description = "The topic of each queue."
  value       = { for name, topic in google_pubsub_topic.queues : name => topic.name }
}

output "events" {
  description = "The topics of events."
  value       = { for name, topic in google_pubsub_topic.events : name => topic.name }
}
