variable "deployment" {
  description = "What every function has in common."
  type        = any
}

variable "timeout_seconds" {
  description = "Longest request."
  type        = number
}

variable "min_instances" {
  description = "That are always there."
  type        = number
}

variable "max_instances" {
  description = "At most."
  type        = number
}

variable "invokers" {
  description = "Who may reach it, under names that are known beforehand."
  type        = map(string)
}

variable "project_number" {
  description = "The project's number, by which conditions know its secrets."
  type        = string
}

variable "builds" {
  description = "Whether there are builds."
  type        = bool
}
