# From outside, as anybody: where the API lets only known accounts in, the sweep's alert must do.
resource "google_monitoring_uptime_check_config" "api" {
  count = var.watched_host == null ? 0 : 1

  project      = var.project_id
  display_name = "xmcloud: the API is ready"
  period       = "900s"
  timeout      = "30s"

  http_check {
    path         = "/v1/ready"
    port         = 443
    use_ssl      = true
    validate_ssl = true
  }

  monitored_resource {
    type   = "uptime_url"
    labels = { project_id = var.project_id, host = var.watched_host }
  }
}

resource "google_monitoring_alert_policy" "not_ready" {
  count = var.watched_host == null ? 0 : 1

  project               = var.project_id
  display_name          = "xmcloud: the API is not ready"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = local.channels

  conditions {
    display_name = "From two places, /v1/ready failed"

    condition_threshold {
      filter          = "resource.type = \"uptime_url\" AND metric.type = \"monitoring.googleapis.com/uptime_check/check_passed\" AND metric.labels.check_id = \"${google_monitoring_uptime_check_config.api[0].uptime_check_id}\""
      comparison      = "COMPARISON_GT"
      threshold_value = 1
      duration        = "0s"

      aggregations {
        alignment_period     = "1200s"
        per_series_aligner   = "ALIGN_NEXT_OLDER"
        cross_series_reducer = "REDUCE_COUNT_FALSE"
        group_by_fields      = ["resource.label.host"]
      }
    }
  }

  documentation {
    content = "`curl https://${var.watched_host}/v1/ready` names what does not answer. ${local.about}"
  }
}
