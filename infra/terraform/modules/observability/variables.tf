variable "project_id" {
  description = "The project."
  type        = string
}

variable "project_number" {
  description = "Its number, which budgets want."
  type        = string
}

variable "alert_emails" {
  description = "Who is told."
  type        = set(string)
}

variable "queue_age_alert_seconds" {
  description = "How long a permit may wait."
  type        = number
}

variable "watched_host" {
  description = "Of the API, where anybody may reach it; null: it is not watched from outside."
  type        = string
}

variable "budget" {
  description = "What may be spent a month; null: no budget."
  type = object({
    billing_account = string
    amount          = number
    currency        = string
  })
}
