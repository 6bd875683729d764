data "google_project" "this" {
  project_id = var.project_id
}

locals {
  agents = { for name, domain in {
    artifacts = "gcp-sa-artifactregistry"
    firestore = "gcp-sa-firestore"
    functions = "gcf-admin-robot"
    pubsub    = "gcp-sa-pubsub"
    run       = "serverless-robot-prod"
    secrets   = "gcp-sa-secretmanager"
    storage   = "gs-project-accounts"
  } : name => "serviceAccount:service-${data.google_project.this.number}@${domain}.iam.gserviceaccount.com" }
  queues = setunion(["high", "default", "low"], var.queues)
  # Cloud Run gives every service this address too, and it is known before there is one.
  run_url = "https://xmcloud-api-${data.google_project.this.number}.${var.region}.run.app"
  api_url = coalesce(var.public_url, local.run_url)
  # What ID tokens may be made out to: wherever a client may have found the API.
  audiences = distinct([
    local.api_url,
    local.run_url,
    "https://${var.region}-${var.project_id}.cloudfunctions.net/xmcloud-api",
  ])
  admins  = { for each in var.admins : "admin ${each}" => "${endswith(each, ".gserviceaccount.com") ? "serviceAccount" : "user"}:${each}" }
  kms_key = var.kms_key == null ? null : google_kms_crypto_key_iam_member.agents["storage"].crypto_key_id

  # XMCLOUD_HOME holds the signing secret alone: what is kept is in Firestore and Cloud Storage.
  environment = merge(
    {
      FUNCTION_USE_ASGI     = "true"
      GOOGLE_CLOUD_PROJECT  = var.project_id
      XMCLOUD_ADMINS        = join(",", sort(var.admins))
      XMCLOUD_AUDIENCE      = join(",", local.audiences)
      XMCLOUD_BUCKET        = module.data.bucket
      XMCLOUD_HOME          = "/etc/xmcloud"
      XMCLOUD_IDENTITY      = "google"
      XMCLOUD_LEASE_SECONDS = tostring(var.lease_seconds)
      XMCLOUD_PROFILE       = "gcp"
      XMCLOUD_PUBLIC_URL    = local.api_url
      XMCLOUD_RATE_LIMIT    = var.rate_limit
    },
    var.vertex == null ? {} : {
      XMCLOUD_VERTEX_LIMIT           = tostring(var.vertex.limit)
      XMCLOUD_VERTEX_LOCATIONS       = join(",", var.vertex.locations)
      XMCLOUD_VERTEX_NETWORK         = var.vertex.network
      XMCLOUD_VERTEX_PER_MINUTE      = tostring(var.vertex.per_minute)
      XMCLOUD_VERTEX_SERVICE_ACCOUNT = module.workers.vertex_email
    },
    var.builds == null ? {} : {
      XMCLOUD_BUILD_LOCATION        = var.builds.location
      XMCLOUD_BUILD_SERVICE_ACCOUNT = module.build.account
      XMCLOUD_REGISTRY              = module.build.registry
    },
    local.kms_key == null ? {} : { XMCLOUD_KMS_KEY = local.kms_key },
    var.otlp_endpoint == null ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT = var.otlp_endpoint },
  )

  # What every function has in common.
  deployment = {
    project_id    = var.project_id
    region        = var.region
    bucket        = module.data.bucket
    source_bucket = google_storage_bucket.source.name
    source_object = google_storage_bucket_object.functions.name
    repository    = google_artifact_registry_repository.functions.id
    build_account = google_service_account.functions_build.id
    environment   = local.environment
    token_secret  = module.data.token_secret
    token_version = module.data.token_version
    connector     = one(google_vpc_access_connector.this[*].id)
    kms_key       = local.kms_key
  }
}

module "data" {
  source = "./modules/data"

  project_id         = var.project_id
  region             = var.region
  firestore_location = coalesce(var.firestore_location, var.region)
  delete_protection  = var.delete_protection
  token_version      = var.token_version
  kms_key            = local.kms_key

  depends_on = [google_project_service.apis]
}

module "queues" {
  source = "./modules/queues"

  project_id = var.project_id
  queues     = local.queues
  pools      = var.pools
  kms_key    = local.kms_key

  depends_on = [google_project_service.apis]
}

module "workers" {
  source = "./modules/workers"

  project_id      = var.project_id
  region          = var.region
  bucket          = module.data.bucket
  images          = module.build.images
  builds          = var.builds != null
  vertex          = var.vertex != null
  worker_identity = var.worker_identity
  pull_directly   = var.workers_pull_directly

  depends_on = [google_project_service.apis]
}

module "api" {
  source = "./modules/api"

  deployment      = local.deployment
  timeout_seconds = var.api_timeout_seconds
  min_instances   = var.api_min_instances
  max_instances   = var.api_max_instances
  invokers        = merge(local.admins, module.workers.invokers, { for who in var.api_invokers : who => who })
  project_number  = data.google_project.this.number
  builds          = var.builds != null

  depends_on = [terraform_data.buildable]
}

module "dispatch" {
  source = "./modules/dispatch"

  deployment     = local.deployment
  queues         = module.queues.queues
  events         = module.queues.events["platform-events"]
  pusher         = google_service_account.pusher.email
  pubsub_agent   = local.agents.pubsub
  vertex         = var.vertex != null
  vertex_runs_as = module.workers.vertex_account
  builds         = var.builds != null

  depends_on = [terraform_data.buildable, google_service_account_iam_member.pubsub_signs]
}

module "build" {
  source = "./modules/build"

  project_id   = var.project_id
  region       = var.region
  kms_key      = local.kms_key
  bucket       = module.data.bucket
  builds       = var.builds
  deployment   = local.deployment
  submitters   = { api = module.api.member, sweep = module.dispatch.sweep }
  events       = module.queues.events["cloud-builds"]
  pusher       = google_service_account.pusher.email
  pubsub_agent = local.agents.pubsub

  depends_on = [terraform_data.buildable, google_service_account_iam_member.pubsub_signs]
}

module "observability" {
  source = "./modules/observability"

  project_id              = var.project_id
  project_number          = data.google_project.this.number
  alert_emails            = var.alert_emails
  queue_age_alert_seconds = var.queue_age_alert_seconds
  watched_host            = contains(var.api_invokers, "allUsers") ? trimprefix(local.api_url, "https://") : null
  budget                  = var.budget

  depends_on = [google_project_service.apis]
}
