resource "google_vpc_access_connector" "this" {
  count = var.vpc_connector == null ? 0 : 1

  project       = var.project_id
  region        = var.region
  name          = "xmcloud"
  network       = var.vpc_connector.network
  ip_cidr_range = var.vpc_connector.ip_cidr_range
  min_instances = 2
  max_instances = 3

  depends_on = [google_project_service.apis]
}
