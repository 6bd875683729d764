# Counted in the lines that functions write, as JSON, to their output.
locals {
  lines = <<-EOT
    resource.type="cloud_run_revision"
    resource.labels.service_name=~"^xmcloud-"
    log_id("run.googleapis.com/stdout")
  EOT
}

resource "google_logging_metric" "lost_workers" {
  project     = var.project_id
  name        = "xmcloud_lost_workers"
  description = "Workers whose lease ran out"
  filter      = "${local.lines}jsonPayload.event=\"worker_lost\""

  label_extractors = {
    worker = "EXTRACT(jsonPayload.worker)"
    pool   = "EXTRACT(jsonPayload.pool)"
  }

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "INT64"
    unit         = "1"
    display_name = "Lost workers"

    labels {
      key         = "worker"
      value_type  = "STRING"
      description = "Its name"
    }

    labels {
      key         = "pool"
      value_type  = "STRING"
      description = "Its pool"
    }
  }
}

resource "google_logging_metric" "errors" {
  project     = var.project_id
  name        = "xmcloud_errors"
  description = "Lines of severity ERROR and above"
  filter      = "${local.lines}severity>=ERROR"

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "INT64"
    unit         = "1"
    display_name = "Errors"
  }
}
