variables {
  project_id = "my-project"
  region     = "europe-west4"
  admins     = ["ann@example.com"]
}

run "idle_costs_nothing" {
  command = plan

  assert {
    condition     = var.api_min_instances == 0
    error_message = "An instance that is always there costs."
  }

  assert {
    condition     = length(google_vpc_access_connector.this) == 0
    error_message = "A connector costs while nothing runs."
  }
}

run "addresses_are_known_beforehand" {
  command = plan

  assert {
    condition     = can(regex("^https://xmcloud-api-.+\\.europe-west4\\.run\\.app$", output.api_url))
    error_message = "The API's address must be known before it is there: its own environment names it."
  }
}

run "own_address" {
  command = plan

  variables {
    public_url = "https://xmcloud.example.com"
  }

  assert {
    condition     = output.api_url == "https://xmcloud.example.com"
    error_message = "public_url must win."
  }
}

run "no_queue_twice" {
  command = plan

  variables {
    queues = ["high"]
  }

  expect_failures = [var.queues]
}
