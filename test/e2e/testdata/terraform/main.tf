# All that the AWS provider has for a service on ECS which podtask answers.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "endpoint" {}
variable "family" {}
variable "image" {}
variable "desired" { default = 1 }
variable "message" { default = "one" }

locals {
  tags = { team = "a" }
}

provider "aws" {
  region                  = "us-east-1"
  skip_metadata_api_check = true
  ignore_tags {
    keys = ["owner"] # that of aws_ecs_tag below
  }
  endpoints {
    appautoscaling = var.endpoint
    ecs            = var.endpoint
    iam            = var.endpoint
    logs           = var.endpoint
    sts            = var.endpoint
  }
}

resource "aws_cloudwatch_log_group" "app" {
  name              = "/ecs/${var.family}"
  retention_in_days = 7
  tags              = local.tags
}

resource "aws_ecs_cluster" "app" {
  name = var.family
  tags = local.tags
  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_cluster_capacity_providers" "app" {
  cluster_name       = aws_ecs_cluster.app.name
  capacity_providers = ["FARGATE", "FARGATE_SPOT"]
}

resource "aws_ecs_account_setting_default" "tags" {
  name  = "containerInsights"
  value = "disabled"
}

resource "aws_ecs_task_definition" "app" {
  family                   = var.family
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 256
  memory                   = 512
  tags                     = local.tags
  container_definitions = jsonencode([{
    name         = "app"
    image        = var.image
    command      = ["print", var.message, "--", "sleep", "forever"]
    essential    = true
    portMappings = [{ containerPort = 8080 }]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.app.name
        awslogs-region        = "us-east-1"
        awslogs-stream-prefix = "app"
      }
    }
  }])
}

resource "aws_ecs_service" "app" {
  name                   = var.family
  cluster                = aws_ecs_cluster.app.arn
  task_definition        = aws_ecs_task_definition.app.arn
  desired_count          = var.desired
  launch_type            = "FARGATE"
  enable_execute_command = true
  propagate_tags         = "SERVICE"
  wait_for_steady_state  = true
  tags                   = local.tags
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  network_configuration {
    subnets         = ["subnet-1"]
    security_groups = ["sg-1"]
  }
}

resource "aws_ecs_tag" "app" {
  resource_arn = aws_ecs_task_definition.app.arn
  key          = "owner"
  value        = "b"
  depends_on   = [aws_ecs_service.app]
}

resource "aws_appautoscaling_target" "app" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.app.name}/${aws_ecs_service.app.name}"
  min_capacity       = 1
  max_capacity       = 4
}

resource "aws_appautoscaling_policy" "app" {
  name               = "cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.app.service_namespace
  scalable_dimension = aws_appautoscaling_target.app.scalable_dimension
  resource_id        = aws_appautoscaling_target.app.resource_id
  target_tracking_scaling_policy_configuration {
    target_value = 60
    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

resource "aws_appautoscaling_scheduled_action" "app" {
  name               = "night"
  schedule           = "cron(0 3 * * ? *)"
  service_namespace  = aws_appautoscaling_target.app.service_namespace
  scalable_dimension = aws_appautoscaling_target.app.scalable_dimension
  resource_id        = aws_appautoscaling_target.app.resource_id
  scalable_target_action {
    min_capacity = 1
    max_capacity = 2
  }
}

data "aws_ecs_task_execution" "once" {
  cluster         = aws_ecs_cluster.app.id
  task_definition = aws_ecs_task_definition.app.arn
  launch_type     = "FARGATE"
  desired_count   = 1
  network_configuration {
    subnets = ["subnet-1"]
  }
  overrides {
    container_overrides {
      name    = "app"
      command = ["exit", "0"]
    }
  }
}

data "aws_ecs_service" "app" {
  service_name = aws_ecs_service.app.name
  cluster_arn  = aws_ecs_cluster.app.arn
}

output "desired" { value = data.aws_ecs_service.app.desired_count }
