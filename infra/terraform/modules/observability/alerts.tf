locals {
  channels = [for channel in google_monitoring_notification_channel.emails : channel.id]
  about    = "docs/operation.md of xmcloud tells what to do."
}

resource "google_monitoring_notification_channel" "emails" {
  for_each = var.alert_emails

  project      = var.project_id
  display_name = "xmcloud: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }
}

resource "google_monitoring_alert_policy" "queue_age" {
  project               = var.project_id
  display_name          = "xmcloud: jobs wait long"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = local.channels

  conditions {
    display_name = "A permit has waited for ${var.queue_age_alert_seconds} s"

    condition_threshold {
      filter          = "resource.type = \"pubsub_subscription\" AND metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.labels.subscription_id = starts_with(\"xmcloud-queue-\")"
      comparison      = "COMPARISON_GT"
      threshold_value = var.queue_age_alert_seconds
      duration        = "300s"

      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "No worker of the pool took it: `xmcloud queue list` shows what waits, `xmcloud worker list` who is there. A pool whose workers are away for good: take it out of `pools`. ${local.about}"
  }
}

resource "google_monitoring_alert_policy" "lost_workers" {
  project               = var.project_id
  display_name          = "xmcloud: a worker is lost"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = local.channels

  conditions {
    display_name = "The lease of a worker ran out"

    condition_threshold {
      filter          = "resource.type = \"cloud_run_revision\" AND metric.type = \"logging.googleapis.com/user/${google_logging_metric.lost_workers.name}\""
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["metric.label.worker", "metric.label.pool"]
      }
    }
  }

  documentation {
    content = "Its jobs run again elsewhere. `xmcloud worker list` shows who is there; on its machine, `xmcloud doctor` and the worker's log tell why. ${local.about}"
  }
}

resource "google_monitoring_alert_policy" "dead_letters" {
  project               = var.project_id
  display_name          = "xmcloud: events were given up"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channels

  conditions {
    display_name = "There are dead letters"

    condition_threshold {
      filter          = "resource.type = \"pubsub_subscription\" AND metric.type = \"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.labels.subscription_id = ends_with(\".dead-letters\")"
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "The sweep sees to the jobs and builds. `gcloud pubsub subscriptions pull NAME` shows the events, the function's log why they failed. ${local.about}"
  }
}

resource "google_monitoring_alert_policy" "errors" {
  project               = var.project_id
  display_name          = "xmcloud: functions fail"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channels

  conditions {
    display_name = "More than five answers of 5xx in five minutes"

    condition_threshold {
      filter          = "resource.type = \"cloud_run_revision\" AND metric.type = \"run.googleapis.com/request_count\" AND resource.labels.service_name = starts_with(\"xmcloud-\") AND metric.labels.response_code_class = \"5xx\""
      comparison      = "COMPARISON_GT"
      threshold_value = 5
      duration        = "0s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["resource.label.service_name"]
      }
    }
  }

  conditions {
    display_name = "More than five errors in five minutes"

    condition_threshold {
      filter          = "resource.type = \"cloud_run_revision\" AND metric.type = \"logging.googleapis.com/user/${google_logging_metric.errors.name}\""
      comparison      = "COMPARISON_GT"
      threshold_value = 5
      duration        = "0s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["resource.label.service_name"]
      }
    }
  }

  documentation {
    content = "Error Reporting and the log of the function tell why. ${local.about}"
  }
}

# A sweep that is not called leaves the jobs of lost workers running for ever.
resource "google_monitoring_alert_policy" "no_sweep" {
  project               = var.project_id
  display_name          = "xmcloud: no sweep"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = local.channels

  conditions {
    display_name = "No sweep succeeded for ten minutes"

    condition_absent {
      filter   = "resource.type = \"cloud_run_revision\" AND metric.type = \"run.googleapis.com/request_count\" AND resource.labels.service_name = \"xmcloud-sweep\" AND metric.labels.response_code_class = \"2xx\""
      duration = "600s"

      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content = "Look at the job xmcloud-sweep of Cloud Scheduler and at the log of the function xmcloud-sweep. ${local.about}"
  }
}

resource "google_billing_budget" "this" {
  count = var.budget == null ? 0 : 1

  billing_account = var.budget.billing_account
  display_name    = "xmcloud"

  budget_filter {
    projects = ["projects/${var.project_number}"]
  }

  amount {
    specified_amount {
      currency_code = var.budget.currency
      units         = tostring(floor(var.budget.amount))
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1.0]

    content {
      threshold_percent = threshold_rules.value
    }
  }

  threshold_rules {
    threshold_percent = 1.0
    spend_basis       = "FORECASTED_SPEND"
  }

  # At most five channels may be named.
  dynamic "all_updates_rule" {
    for_each = length(local.channels) > 0 ? [true] : []

    content {
      monitoring_notification_channels = slice(sort(local.channels), 0, min(5, length(local.channels)))
    }
  }
}
