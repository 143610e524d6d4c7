package awsapi

// ECSMembers are the members of a task definition in answers.
var ECSMembers = ecsMembers
