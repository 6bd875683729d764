variable "project_id" {
  description = "The project."
  type        = string
}

variable "region" {
  description = "Of the images."
  type        = string
}

variable "kms_key" {
  description = "Encrypts images; null: Google's keys."
  type        = string
}

variable "bucket" {
  description = "The bucket of archives and of logs of builds."
  type        = string
}

variable "builds" {
  description = "Where builds run, and how long images stay; null: no builds."
  type = object({
    location  = string
    keep_days = number
  })
}

variable "deployment" {
  description = "What every function has in common."
  type        = any
}

variable "submitters" {
  description = "Who submits builds besides the function that hears of them, under names that are known beforehand."
  type        = map(string)
}

variable "events" {
  description = "The topic of Cloud Build's events."
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
