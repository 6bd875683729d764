variable "project_id" {
  description = "The project, for xmcloud alone: it takes the project's Firestore database."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id is 6 to 30 of a-z, 0-9 and -, as in `gcloud projects list`."
  }
}

variable "region" {
  description = "Where functions, bucket, images and schedule are."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is one such as europe-west4."
  }
}

variable "firestore_location" {
  description = "Of the database, which can never move: a region, or eur3 or nam5. null: the region."
  type        = string
  default     = null

  validation {
    condition     = var.firestore_location == null || can(regex("^(eur3|nam5|nam7|[a-z]+-[a-z]+[0-9]+)$", var.firestore_location))
    error_message = "firestore_location is a region, or eur3, nam5 or nam7."
  }
}

variable "admins" {
  description = "Addresses of people and service accounts that are admins of everything; they may reach the API, too. One at least."
  type        = set(string)

  validation {
    condition     = length(var.admins) > 0 && alltrue([for each in var.admins : can(regex("^[a-z0-9][a-z0-9._%+-]*@[a-z0-9.-]+$", each))])
    error_message = "admins holds one e-mail address or more, in small letters; of people or service accounts, not of groups."
  }
}

variable "api_invokers" {
  description = "Who may reach the API besides admins and xmcloud's own accounts: members such as group:team@example.com. [\"allUsers\"] leaves the check of every request to the API."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for who in var.api_invokers : can(regex("^(allUsers|allAuthenticatedUsers|(user|group|domain|serviceAccount|principal|principalSet):.+)$", who))])
    error_message = "api_invokers holds allUsers, or members such as group:team@example.com."
  }
}

variable "public_url" {
  description = "Where the API is reached, if not at the address that Google gives it."
  type        = string
  default     = null

  validation {
    condition     = var.public_url == null || can(regex("^https://[^/]+$", var.public_url))
    error_message = "public_url is https://HOST, without a path."
  }
}

variable "token_version" {
  description = "Raise it by one for a new signing secret; the tokens of running attempts in the cloud end with the old one."
  type        = number
  default     = 1

  validation {
    condition     = var.token_version >= 1 && floor(var.token_version) == var.token_version
    error_message = "token_version is 1, 2, 3 ..."
  }
}

variable "lease_seconds" {
  description = "How long a silent worker keeps its jobs; it is heard three times in that time, and each time is a request."
  type        = number
  default     = 60

  validation {
    condition     = var.lease_seconds >= 30 && var.lease_seconds <= 3600
    error_message = "lease_seconds is 30 to 3600: the sweep looks once a minute."
  }
}

variable "queues" {
  description = "Named queues beside high, default and low."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.queues : can(regex("^[a-z][a-z0-9-]{0,62}$", name)) && !contains(["high", "default", "low"], name)])
    error_message = "queues are names of a-z, 0-9 and -, none of them high, default or low."
  }
}

variable "pools" {
  description = "Pools of workers that have a subscription before their first worker comes."
  type        = set(string)
  default     = ["local"]

  validation {
    condition     = alltrue([for name in var.pools : can(regex("^[a-z][a-z0-9-]{0,62}$", name)) && name != "vertex"])
    error_message = "pools are names of a-z, 0-9 and -; vertex is the target's."
  }
}

variable "rate_limit" {
  description = "Requests a second of one caller, and at once, of each instance of the API: 50/500; or off."
  type        = string
  default     = "50/500"

  validation {
    condition     = can(regex("^([1-9][0-9]{0,4}/[1-9][0-9]{0,4}|off)$", var.rate_limit))
    error_message = "rate_limit is REQUESTS_A_SECOND/AT_ONCE such as 50/500, or off."
  }
}

variable "api_timeout_seconds" {
  description = "Longest request of the API. Completing an upload of many parts takes minutes."
  type        = number
  default     = 540

  validation {
    condition     = var.api_timeout_seconds >= 300 && var.api_timeout_seconds <= 3600
    error_message = "api_timeout_seconds is 300 to 3600."
  }
}

variable "api_min_instances" {
  description = "Instances of the API that are always there. 0 costs nothing while idle; 1 spares people the cold start."
  type        = number
  default     = 0

  validation {
    condition     = var.api_min_instances >= 0 && var.api_min_instances <= 10
    error_message = "api_min_instances is 0 to 10."
  }
}

variable "api_max_instances" {
  description = "Instances of the API at most: what limits the bill of a mishap."
  type        = number
  default     = 10

  validation {
    condition     = var.api_max_instances >= 1 && var.api_max_instances <= 100
    error_message = "api_max_instances is 1 to 100."
  }
}

variable "vertex" {
  description = "Makes the target vertex: its regions (the first by default), jobs at a time, submissions a minute, and the network of jobs that name none. null: no jobs on Vertex AI."
  type = object({
    locations  = list(string)
    limit      = optional(number, 100)
    per_minute = optional(number, 40)
    network    = optional(string, "")
  })
  default = null

  validation {
    condition     = var.vertex == null || try(length(var.vertex.locations) > 0 && alltrue([for each in var.vertex.locations : can(regex("^[a-z]+-[a-z]+[0-9]+$", each))]), false)
    error_message = "vertex.locations holds one region or more."
  }

  validation {
    condition     = var.vertex == null || try(var.vertex.limit >= 1 && var.vertex.per_minute >= 1 && var.vertex.per_minute <= 60, false)
    error_message = "vertex.limit is 1 or more, vertex.per_minute 1 to 60, which is what Vertex AI takes."
  }
}

variable "builds" {
  description = "Has images built by Cloud Build: its location, and days after which images that are not kept go. null: no builds."
  type = object({
    location  = optional(string, "global")
    keep_days = optional(number, 90)
  })
  default = null

  validation {
    condition     = var.builds == null || try(var.builds.keep_days >= 1, false)
    error_message = "builds.keep_days is 1 or more."
  }
}

variable "worker_identity" {
  description = "Lets workers elsewhere be the workers' service account without a key file: the issuer of their OpenID Connect tokens, which of them, and the audiences they name. null: none."
  type = object({
    issuer_uri          = string
    attribute_condition = string
    allowed_audiences   = optional(list(string), [])
  })
  default = null

  validation {
    condition     = var.worker_identity == null || try(startswith(var.worker_identity.issuer_uri, "https://") && length(trimspace(var.worker_identity.attribute_condition)) > 0, false)
    error_message = "worker_identity.issuer_uri is https://..., and attribute_condition says whose tokens: without one, everybody of that issuer."
  }
}

variable "workers_pull_directly" {
  description = "Workers may take permits from Pub/Sub themselves (XMCLOUD_QUEUE=pubsub). Through the API, each keeps an instance of it at work."
  type        = bool
  default     = true
}

variable "vpc_connector" {
  description = "Sends what functions ask of private addresses through a connector into this network. It costs while idle. null: none."
  type = object({
    network       = string
    ip_cidr_range = string
  })
  default = null

  validation {
    condition     = var.vpc_connector == null || try(can(cidrhost(var.vpc_connector.ip_cidr_range, 0)) && endswith(var.vpc_connector.ip_cidr_range, "/28"), false)
    error_message = "vpc_connector.ip_cidr_range is a /28 that nothing else uses."
  }
}

variable "kms_key" {
  description = "Encrypts documents, blobs, messages, images and secrets with this key of yours: projects/P/locations/L/keyRings/R/cryptoKeys/K. null: Google's keys."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key == null || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "kms_key is projects/P/locations/L/keyRings/R/cryptoKeys/K."
  }
}

variable "otlp_endpoint" {
  description = "Where functions send traces: an OpenTelemetry collector, http://HOST:4318. null: nowhere."
  type        = string
  default     = null

  validation {
    condition     = var.otlp_endpoint == null || can(regex("^https?://[^/]+", var.otlp_endpoint))
    error_message = "otlp_endpoint is http://HOST:PORT or https://HOST."
  }
}

variable "alert_emails" {
  description = "Who is told of alerts."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for each in var.alert_emails : can(regex("^[^@\\s]+@[^@\\s]+$", each))])
    error_message = "alert_emails holds addresses."
  }
}

variable "queue_age_alert_seconds" {
  description = "Tells when a permit has waited this long for a worker of its pool."
  type        = number
  default     = 86400

  validation {
    condition     = var.queue_age_alert_seconds >= 600
    error_message = "queue_age_alert_seconds is 600 or more."
  }
}

variable "budget" {
  description = "Tells at half, nine tenths and all of this amount a month, and when it is forecast. null: no budget."
  type = object({
    billing_account = string
    amount          = number
    currency        = optional(string, "USD")
  })
  default = null

  validation {
    condition     = var.budget == null || try(var.budget.amount >= 1 && can(regex("^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", var.budget.billing_account)), false)
    error_message = "budget.billing_account is XXXXXX-XXXXXX-XXXXXX, budget.amount 1 or more."
  }
}

variable "delete_protection" {
  description = "Refuses to destroy the database and the bucket of blobs. Apply false before `terraform destroy`."
  type        = bool
  default     = true
}
