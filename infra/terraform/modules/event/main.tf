locals {
  subscription = "xmcloud-${var.name}.control-plane"
  dead_letters = "xmcloud-${var.name}.dead-letters"
}

resource "google_pubsub_subscription" "events" {
  project                    = var.project_id
  name                       = local.subscription
  topic                      = "projects/${var.project_id}/topics/${var.topic}"
  filter                     = "attributes.audience = \"control-plane\" OR NOT attributes:audience"
  ack_deadline_seconds       = 600
  message_retention_duration = "604800s"

  push_config {
    # The parameter is the one that triggers of functions set: it makes messages CloudEvents.
    push_endpoint = "${var.uri}?__GCP_CloudEventsMode=CUSTOM_PUBSUB_${urlencode("projects/${var.project_id}/topics/${var.topic}")}"

    oidc_token {
      service_account_email = var.pusher
      audience              = var.uri
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead_letters.id
    max_delivery_attempts = 20
  }

  expiration_policy {
    ttl = ""
  }

  depends_on = [google_pubsub_topic_iam_member.agent_buries]
}

resource "google_pubsub_topic" "dead_letters" {
  # checkov:skip=CKV_GCP_83: encrypted with kms_key where there is one
  project      = var.project_id
  name         = local.dead_letters
  kms_key_name = var.kms_key
}

resource "google_pubsub_subscription" "dead_letters" {
  project                    = var.project_id
  name                       = local.dead_letters
  topic                      = google_pubsub_topic.dead_letters.id
  ack_deadline_seconds       = 60
  message_retention_duration = "2678400s"

  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_topic_iam_member" "agent_buries" {
  project = var.project_id
  topic   = google_pubsub_topic.dead_letters.name
  role    = "roles/pubsub.publisher"
  member  = var.pubsub_agent
}

resource "google_pubsub_subscription_iam_member" "agent_takes" {
  project      = var.project_id
  subscription = google_pubsub_subscription.events.name
  role         = "roles/pubsub.subscriber"
  member       = var.pubsub_agent
}
