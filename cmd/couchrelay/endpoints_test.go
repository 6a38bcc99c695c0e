package main

import "testing"

// TestQueryParameters: a value is taken as it is, whatever signs it has.
func TestQueryParameters(t *testing.T) {
	t.Parallel()
	var c commands
	_, err := newParser(&c, func(int) {}).Parse([]string{"replicate", "http://a/b", "http://c/d", "--filter", "x/y",
		"--query-param", "query=a=1;b=2", "--query-param", "list=1,2"})
	if got := c.Replicate.QueryParam; err != nil || len(got) != 2 || got["query"] != "a=1;b=2" || got["list"] != "1,2" {
		t.Errorf("%q, %v", got, err)
	}
}
