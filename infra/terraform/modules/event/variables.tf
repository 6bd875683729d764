variable "project_id" {
  description = "The project."
  type        = string
}

variable "name" {
  description = "What the code calls the topic."
  type        = string
}

variable "topic" {
  description = "The topic's name."
  type        = string
}

variable "uri" {
  description = "Of the function that takes the events."
  type        = string
}

variable "pusher" {
  description = "The service account in whose name the function is called."
  type        = string
}

variable "pubsub_agent" {
  description = "Pub/Sub itself, as a member of roles."
  type        = string
}

variable "kms_key" {
  description = "Encrypts messages; null: Google's keys."
  type        = string
}
