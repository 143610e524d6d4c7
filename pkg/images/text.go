package images

// FailureText is a phrase in the message of a failed pull. It tells the class of the failure
// where only the message is left, as in the replies of Podman's service.
type FailureText struct {
	Text  string // in lower case
	Class Class
	From  string // where the phrase comes from
}

// FailureTexts are all known phrases. They must be searched in this order.
var FailureTexts = []FailureText{
	{"manifest unknown", NoSuchTag, "registry"},
	{"name unknown", NoSuchRepository, "registry"},
	{"no image found in manifest list", WrongPlatform, "containers/image before 5.29"},
	{"no image found in image index", WrongPlatform, "containers/image"},
	{"toomanyrequests", RateLimited, "registry's error code"},
	{"too many requests", RateLimited, "registry's status 429"},
	{"unauthorized", Unauthorized, "registry's status 401, with and without a body"},
	{"authentication required", Unauthorized, "registry"},
	{"invalid username/password", Unauthorized, "containers/image"},
	{"invalid status code from registry 401", Unauthorized, "containers/image, for a layer"},
	{"invalid status code from registry 403", Denied, "containers/image, for a layer"},
	{"requested access to the resource is denied", Denied, "registry's status 403"},
	{": denied: ", Denied, "registry's error code"},
	{"403 (forbidden)", Denied, "registry's status 403, without a body"},
	{"403 forbidden", Denied, "registry's status 403, without a body"},
	{"statuscode: 403", Denied, "containers/image"},
	{"502 bad gateway", Server, "registry"},
	{"503 service unavailable", Server, "registry"},
	{"504 gateway time", Server, "registry"},
	{"invalid status code from registry 5", Server, "containers/image, for a layer"},
	{"invalid status code from registry 429", RateLimited, "containers/image, for a layer"},
}
