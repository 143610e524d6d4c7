#!/bin/bash
# walk drives the agent with the command line of AWS: tasks, then services.
#
#   walk.sh PODTASK FAMILY IMAGE     with what `podtask aws env` prints in the environment
set -euo pipefail
podtask=$1 family=$2 image=$3

# Debian 12's command line does not read AWS_ENDPOINT_URL.
aws() { /usr/bin/aws --endpoint-url "$AWS_ENDPOINT_URL" --output text "$@"; }

# is fails unless $1 is $2.
is() { [ "$1" = "$2" ] || { printf 'line %s: got %q, want %q\n' "${BASH_LINENO[0]}" "$1" "$2" >&2 && exit 1; }; }

# refused fails unless the command ends with 254 and names the error $1.
refused() {
	local name=$1 out status=0
	shift
	out=$("$@" 2>&1) || status=$?
	is "$status" 254
	[[ $out == *"($name)"* ]] || is "$out" "... ($name) ..."
}

# definition writes the task definition $1 with the command $2. $3 are more members of the container.
definition() {
	cat >"$1" <<-END
		{"family": "$family", "networkMode": "awsvpc", "requiresCompatibilities": ["FARGATE"], "cpu": "256", "memory": "512",
		 "executionRoleArn": "arn:aws:iam::000000000000:role/execution",
		 "containerDefinitions": [{"name": "app", "image": "$image", "command": $2, ${3:-}
		   "portMappings": [{"containerPort": 8080}], "stopTimeout": 2,
		   "environment": [{"name": "GREETING", "value": "no"}]}]}
	END
}

is "$(aws sts get-caller-identity --query Account)" 000000000000
definition web.json '["term", "0", "--", "serve", "8080"]'
register() { aws ecs register-task-definition --cli-input-json "file://$1" --query taskDefinition.taskDefinitionArn; }
is "$(register web.json)" "arn:aws:ecs:local:000000000000:task-definition/$family:1"
is "$(register web.json)" "arn:aws:ecs:local:000000000000:task-definition/$family:2"
aws ecs describe-task-definition --task-definition "$family" --output json |
	jq '{family: .taskDefinition.family, containerDefinitions: .taskDefinition.containerDefinitions, volumes: .taskDefinition.volumes, placementConstraints: .taskDefinition.placementConstraints}' >again.json
is "$(register again.json)" "arn:aws:ecs:local:000000000000:task-definition/$family:3"

read -ra tasks < <(aws ecs run-task --task-definition "$family:1" --count 2 --launch-type FARGATE --started-by ci \
	--network-configuration 'awsvpcConfiguration={subnets=[subnet-1]}' \
	--overrides '{"containerOverrides":[{"name":"app","environment":[{"name":"GREETING","value":"hi"}]}]}' --query 'tasks[].taskArn')
is "${#tasks[@]}" 2
aws ecs wait tasks-running --tasks "${tasks[@]}"
read -ra ports < <(aws ecs describe-tasks --tasks "${tasks[@]}" --query 'tasks[].containers[0].networkBindings[0].hostPort' | xargs)
is "${#ports[@]}" 2
[ "${ports[0]}" != "${ports[1]}" ] || is "${ports[1]}" "another port"
for port in "${ports[@]}"; do is "$(curl -fsS --retry 5 --retry-connrefused "http://127.0.0.1:$port/env/GREETING")" hi; done
is "$(aws ecs list-tasks --started-by ci --query 'length(taskArns)')" 2
is "$("$podtask" ps --quiet | wc -l)" 2
aws ecs stop-task --task "${tasks[0]}" --reason enough >/dev/null
aws ecs wait tasks-stopped --tasks "${tasks[0]}"
is "$(aws ecs describe-tasks --tasks "${tasks[0]}" --query 'tasks[0].[stopCode,stoppedReason,lastStatus]')" "$(printf 'UserInitiated\tenough\tSTOPPED')"
aws ecs stop-task --task "${tasks[1]}" >/dev/null
if aws ecs run-task --generate-cli-skeleton --output json | grep -q clientToken; then # since 2.13
	token() { aws ecs run-task --task-definition "$family:1" --client-token x1 --query 'tasks[0].taskArn'; }
	once=$(token)
	is "$(token)" "$once"
	aws ecs stop-task --task "$once" >/dev/null
fi

refused ClusterNotFoundException aws ecs list-tasks --cluster nowhere
AWS_SECRET_ACCESS_KEY=no refused InvalidSignatureException aws ecs list-clusters
refused UnsupportedFeatureException aws ecs create-capacity-provider --name p --auto-scaling-group-provider autoScalingGroupArn=a
refused InvalidAction aws ec2 describe-subnets

# tail shows each line once, also of tasks that start meanwhile.
definition printing.json '["print", "one", "--", "print", "two"]' '"logConfiguration": {"logDriver": "awslogs",
	"options": {"awslogs-group": "/ecs/'"$family"'", "awslogs-region": "us-east-1", "awslogs-stream-prefix": "web"}},'
printing=$(register printing.json)
prints() { # a task that prints and ends, and then until tail has shown $1 lines
	local task tries
	task=$(aws ecs run-task --task-definition "$printing" --query 'tasks[0].taskArn')
	aws ecs wait tasks-stopped --tasks "$task"
	for tries in $(seq 120); do
		[ "$(wc -l <tail.txt)" -lt "$1" ] || return 0
		sleep 0.5
	done
	is "$(cat tail.txt)" "$1 lines, after $tries tries"
}
touch tail.txt
aws logs create-log-group --log-group-name "/ecs/$family"
PYTHONUNBUFFERED=1 /usr/bin/aws --endpoint-url "$AWS_ENDPOINT_URL" logs tail "/ecs/$family" --follow --since 1h >tail.txt &
trap 'kill %1' EXIT
prints 2
prints 4
prints 6
is "$(awk '{ print $NF }' tail.txt | sort | uniq -c | xargs)" "3 one 3 two"
is "$(awk '{ print $2 }' tail.txt | sort | uniq -c | awk '{ print $1 }' | xargs)" "2 2 2"

service() { aws ecs describe-services --services "$family" --query "services[0].$1"; }
aws ecs create-service --service-name "$family" --task-definition "$family:1" --desired-count 2 \
	--deployment-configuration 'deploymentCircuitBreaker={enable=true,rollback=true}' >/dev/null
aws ecs wait services-stable --services "$family"
aws ecs update-service --service "$family" --task-definition "$family:2" >/dev/null
first=$(service 'deployments[0].id')
aws ecs update-service --service "$family" --task-definition "$family:2" >/dev/null
is "$(service 'deployments[0].id')" "$first"
aws ecs wait services-stable --services "$family"
definition broken.json '["exit", "1"]'
broken=$(register broken.json)
aws ecs update-service --service "$family" --task-definition "$broken" >/dev/null
aws ecs wait services-stable --services "$family"
is "$(service '[length(deployments),taskDefinition]')" "$(printf '1\tarn:aws:ecs:local:000000000000:task-definition/%s:2' "$family")"
# In ECS's words: what its circuit breaker says.
[[ $(service 'events[].message') == *"deployment failed: tasks failed to start."* ]] || is "$(service 'events[].message')" "... deployment failed ..."
aws ecs delete-service --service "$family" --force >/dev/null
aws ecs wait services-inactive --services "$family"
aws ecs create-service --service-name "$family" --task-definition "$family:1" --desired-count 1 >/dev/null
aws ecs delete-service --service "$family" --force >/dev/null
aws ecs wait services-inactive --services "$family"
echo done
