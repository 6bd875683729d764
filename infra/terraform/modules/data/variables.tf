variable "project_id" {
  description = "The project."
  type        = string
}

variable "region" {
  description = "Of the bucket and the signing secret."
  type        = string
}

variable "firestore_location" {
  description = "Of the database."
  type        = string
}

variable "delete_protection" {
  description = "Refuses to destroy the database and the bucket."
  type        = bool
}

variable "token_version" {
  description = "Another number makes another signing secret."
  type        = number
}

variable "kms_key" {
  description = "Encrypts what is kept; null: Google's keys."
  type        = string
}
