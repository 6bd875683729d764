variable "name" {
  description = "The function is xmcloud-NAME, and so is its service account."
  type        = string
}

variable "entry_point" {
  description = "Of functions/main.py."
  type        = string
}

variable "description" {
  description = "What it does."
  type        = string
}

variable "deployment" {
  description = "What every function has in common."
  type = object({
    project_id    = string
    region        = string
    bucket        = string
    source_bucket = string
    source_object = string
    repository    = string
    build_account = string
    environment   = map(string)
    token_secret  = string
    token_version = string
    connector     = string
    kms_key       = string
  })
}

variable "permissions" {
  description = "In the project: what the code behind the entry point uses."
  type        = list(string)
}

variable "bucket_permissions" {
  description = "In the bucket of blobs."
  type        = list(string)
  default     = []
}

variable "timeout_seconds" {
  description = "Longest request."
  type        = number
}

variable "concurrency" {
  description = "Requests that an instance serves at a time."
  type        = number
}

variable "min_instances" {
  description = "That are always there."
  type        = number
  default     = 0
}

variable "max_instances" {
  description = "At most."
  type        = number
}

variable "memory" {
  description = "Of an instance."
  type        = string
  default     = "1Gi"
}

variable "ingress" {
  description = "From where requests may come."
  type        = string
  default     = "ALLOW_INTERNAL_ONLY"
}

variable "invokers" {
  description = "Who may call it, under names that are known beforehand."
  type        = map(string)
}
