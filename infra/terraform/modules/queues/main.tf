# The names, filters and times are those of the code, which makes what is missing here when a worker
# of another pool comes or somebody makes a queue: xmcloud/adapters/gcp/pubsub.py.
locals {
  copies = { for pair in setproduct(var.queues, var.pools) : "${pair[0]}.${pair[1]}" => {
    queue = pair[0]
    pool  = pair[1]
  } }
  # Cloud Build looks for a topic of this very name.
  events = {
    cloud-builds    = "cloud-builds"
    platform-events = "xmcloud-platform-events"
  }
}

resource "google_pubsub_topic" "queues" {
  # checkov:skip=CKV_GCP_83: encrypted with kms_key where there is one
  for_each = var.queues

  project      = var.project_id
  name         = "xmcloud-queue-${each.value}"
  kms_key_name = var.kms_key
}

# Permits: no retry policy, which would delay what a worker gives back; no dead letters, since a
# permit that comes again and again waits for a worker that it fits.
resource "google_pubsub_subscription" "permits" {
  for_each = local.copies

  project                    = var.project_id
  name                       = "xmcloud-queue-${each.value.queue}.${each.value.pool}"
  topic                      = google_pubsub_topic.queues[each.value.queue].id
  filter                     = "attributes.audience = \"${each.value.pool}\" OR NOT attributes:audience"
  ack_deadline_seconds       = 10
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = ""
  }
}

# Words to worker sessions; each session makes and removes its own subscription.
resource "google_pubsub_topic" "control" {
  # checkov:skip=CKV_GCP_83: encrypted with kms_key where there is one
  project      = var.project_id
  name         = "xmcloud-control"
  kms_key_name = var.kms_key
}

resource "google_pubsub_topic" "events" {
  # checkov:skip=CKV_GCP_83: encrypted with kms_key where there is one
  for_each = local.events

  project      = var.project_id
  name         = each.value
  kms_key_name = var.kms_key
}
