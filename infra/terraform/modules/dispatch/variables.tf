variable "deployment" {
  description = "What every function has in common."
  type        = any
}

variable "queues" {
  description = "The topic of each queue."
  type        = map(string)
}

variable "events" {
  description = "The topic of platforms' events."
  type        = string
}

variable "pusher" {
  description = "The service account in whose name Pub/Sub calls functions."
  type        = string
}

variable "pubsub_agent" {
  description = "Pub/Sub itself, as a member of roles."
  type        = string
}

variable "vertex" {
  description = "Whether there is the target vertex."
  type        = bool
}

variable "vertex_runs_as" {
  description = "The service account that jobs on Vertex AI run as: its resource; null without vertex."
  type        = string
}

variable "builds" {
  description = "Whether there are builds."
  type        = bool
}
