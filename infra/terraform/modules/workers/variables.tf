variable "project_id" {
  description = "The project."
  type        = string
}

variable "region" {
  description = "Of the images."
  type        = string
}

variable "bucket" {
  description = "The bucket of checkpoints and outputs."
  type        = string
}

variable "images" {
  description = "The repository of built images; null without builds."
  type        = string
}

variable "builds" {
  description = "Whether there are builds."
  type        = bool
}

variable "vertex" {
  description = "Whether there is the target vertex."
  type        = bool
}

variable "worker_identity" {
  description = "Whose tokens make a worker elsewhere the workers' account; null: nobody's."
  type = object({
    issuer_uri          = string
    attribute_condition = string
    allowed_audiences   = list(string)
  })
}

variable "pull_directly" {
  description = "Whether workers take permits from Pub/Sub themselves."
  type        = bool
}
