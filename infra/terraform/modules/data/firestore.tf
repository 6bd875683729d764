locals {
  # The one declaration, which the code checks its queries against.
  declared = jsondecode(file("${path.module}/../../../../functions/xmcloud/core/firestore.indexes.json"))
  indexes = { for index in local.declared.indexes :
    join("_", concat([index.collectionGroup], [for field in index.fields : "${field.fieldPath}-${lower(substr(field.order, 0, 3))}"])) => index
  }
  overrides = { for field in local.declared.fieldOverrides : "${field.collectionGroup}_${field.fieldPath}" => field }
}

resource "google_firestore_database" "this" {
  # checkov:skip=CKV_GCP_132: the variable delete_protection is on unless somebody is about to destroy all
  project                           = var.project_id
  name                              = "(default)"
  location_id                       = var.firestore_location
  type                              = "FIRESTORE_NATIVE"
  concurrency_mode                  = "PESSIMISTIC"
  app_engine_integration_mode       = "DISABLED"
  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  delete_protection_state           = var.delete_protection ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = "DELETE"

  dynamic "cmek_config" {
    for_each = var.kms_key[*]

    content {
      kms_key_name = cmek_config.value
    }
  }
}

resource "google_firestore_index" "this" {
  for_each = local.indexes

  project     = var.project_id
  database    = google_firestore_database.this.name
  collection  = each.value.collectionGroup
  query_scope = each.value.queryScope

  dynamic "fields" {
    for_each = each.value.fields

    content {
      field_path = fields.value.fieldPath
      order      = fields.value.order
    }
  }
}

resource "google_firestore_field" "this" {
  for_each = local.overrides

  project    = var.project_id
  database   = google_firestore_database.this.name
  collection = each.value.collectionGroup
  field      = each.value.fieldPath

  index_config {
    dynamic "indexes" {
      for_each = each.value.indexes

      content {
        query_scope = indexes.value.queryScope
        order       = lookup(indexes.value, "order", null)
      }
    }
  }

  dynamic "ttl_config" {
    for_each = lookup(each.value, "ttl", false) ? [true] : []

    content {}
  }
}

# Clients speak to the API alone.
resource "google_firebaserules_ruleset" "nobody" {
  project = var.project_id

  source {
    files {
      name    = "firestore.rules"
      content = file("${path.module}/firestore.rules")
    }
  }

  depends_on = [google_firestore_database.this]
}

resource "google_firebaserules_release" "firestore" {
  project      = var.project_id
  name         = "cloud.firestore"
  ruleset_name = google_firebaserules_ruleset.nobody.name

  lifecycle {
    replace_triggered_by = [google_firebaserules_ruleset.nobody]
  }
}
