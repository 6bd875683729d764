locals {
  run  = "resource.type=\"cloud_run_revision\" resource.labels.service_name=starts_with(\"xmcloud-\")"
  push = "resource.type=\"pubsub_subscription\""

  charts = [
    {
      title  = "Oldest permit, by queue and pool (s)"
      filter = "metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" ${local.push} resource.labels.subscription_id=starts_with(\"xmcloud-queue-\")"
      align  = "ALIGN_MAX", reduce = "REDUCE_MAX", by = "resource.label.subscription_id"
    },
    {
      title  = "Permits that wait"
      filter = "metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" ${local.push} resource.labels.subscription_id=starts_with(\"xmcloud-queue-\")"
      align  = "ALIGN_MAX", reduce = "REDUCE_MAX", by = "resource.label.subscription_id"
    },
    {
      title  = "Requests, by function (1/s)"
      filter = "metric.type=\"run.googleapis.com/request_count\" ${local.run}"
      align  = "ALIGN_RATE", reduce = "REDUCE_SUM", by = "resource.label.service_name"
    },
    {
      title  = "Answers, by class (1/s)"
      filter = "metric.type=\"run.googleapis.com/request_count\" ${local.run}"
      align  = "ALIGN_RATE", reduce = "REDUCE_SUM", by = "metric.label.response_code_class"
    },
    {
      title  = "Time of 95 % of requests, by function (ms)"
      filter = "metric.type=\"run.googleapis.com/request_latencies\" ${local.run}"
      align  = "ALIGN_PERCENTILE_95", reduce = "REDUCE_MAX", by = "resource.label.service_name"
    },
    {
      title  = "Instances, by function"
      filter = "metric.type=\"run.googleapis.com/container/instance_count\" ${local.run}"
      align  = "ALIGN_MAX", reduce = "REDUCE_SUM", by = "resource.label.service_name"
    },
    {
      title  = "Lost workers, by pool"
      filter = "metric.type=\"logging.googleapis.com/user/${google_logging_metric.lost_workers.name}\" resource.type=\"cloud_run_revision\""
      align  = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = "metric.label.pool"
    },
    {
      title  = "Errors, by function"
      filter = "metric.type=\"logging.googleapis.com/user/${google_logging_metric.errors.name}\" resource.type=\"cloud_run_revision\""
      align  = "ALIGN_DELTA", reduce = "REDUCE_SUM", by = "resource.label.service_name"
    },
    {
      title  = "Dead letters"
      filter = "metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" ${local.push} resource.labels.subscription_id=ends_with(\".dead-letters\")"
      align  = "ALIGN_MAX", reduce = "REDUCE_MAX", by = "resource.label.subscription_id"
    },
    {
      title  = "Firestore: reads (1/s)"
      filter = "metric.type=\"firestore.googleapis.com/document/read_count\" resource.type=\"firestore_instance\""
      align  = "ALIGN_RATE", reduce = "REDUCE_SUM", by = "metric.label.type"
    },
    {
      title  = "Firestore: writes (1/s)"
      filter = "metric.type=\"firestore.googleapis.com/document/write_count\" resource.type=\"firestore_instance\""
      align  = "ALIGN_RATE", reduce = "REDUCE_SUM", by = "metric.label.op"
    },
  ]
}

resource "google_monitoring_dashboard" "this" {
  project = var.project_id
  dashboard_json = jsonencode({
    displayName = "xmcloud"
    mosaicLayout = {
      columns = 12
      tiles = [for place, chart in local.charts : {
        xPos   = 6 * (place % 2)
        yPos   = 4 * floor(place / 2)
        width  = 6
        height = 4
        widget = {
          title = chart.title
          xyChart = {
            dataSets = [{
              plotType = "LINE"
              timeSeriesQuery = {
                timeSeriesFilter = {
                  filter = chart.filter
                  aggregation = {
                    alignmentPeriod    = "60s"
                    perSeriesAligner   = chart.align
                    crossSeriesReducer = chart.reduce
                    groupByFields      = [chart.by]
                  }
                }
              }
            }]
          }
        }
      }]
    }
  })
}
