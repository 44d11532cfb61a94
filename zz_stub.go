package main

import "github.com/weirhpc/weir/config"

func inUse(config.Config) (map[string][]string, error) { return nil, nil }
