package awsapi

// ECSMembers are the members of a task definition in answers.
var ECSMembers = ecsMembers

// EventMessage is a message in the words of ECS.
var EventMessage = eventMessage

// BucketOf is the index of a target's bucket.
var BucketOf = bucketOf
