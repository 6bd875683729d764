# A worker's session syncs several times in its lease, and closes when it ends well.
locals {
  calls = {
    sync  = "Syncs of worker sessions"
    close = "Ends of worker sessions"
  }
}

resource "google_logging_metric" "sessions" {
  for_each = local.calls

  project     = var.project_id
  name        = "xmcloud_session_${each.key}"
  description = each.value
  filter      = <<-EOT
    resource.type="cloud_run_revision"
    resource.labels.service_name="xmcloud-api"
    log_id("run.googleapis.com/requests")
    httpRequest.requestMethod="POST"
    httpRequest.status<300
    httpRequest.requestUrl=~"/v1/sessions/[^/]+/${each.key}$"
  EOT

  label_extractors = {
    session = "REGEXP_EXTRACT(httpRequest.requestUrl, \"/v1/sessions/([^/]+)/${each.key}$\")"
  }

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "INT64"
    unit         = "1"
    display_name = each.value

    labels {
      key         = "session"
      value_type  = "STRING"
      description = "Id of the worker's session"
    }
  }
}
