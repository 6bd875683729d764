output "dashboard" {
  description = "The dashboard's page."
  value       = "https://console.cloud.google.com/monitoring/dashboards/builder/${element(split("/", google_monitoring_dashboard.this.id), 3)}?project=${var.project_id}"
}
