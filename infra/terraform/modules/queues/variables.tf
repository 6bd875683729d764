variable "project_id" {
  description = "The project."
  type        = string
}

variable "queues" {
  description = "Each has a topic."
  type        = set(string)
}

variable "pools" {
  description = "Each has a subscription to every queue."
  type        = set(string)
}

variable "kms_key" {
  description = "Encrypts messages; null: Google's keys."
  type        = string
}
