package inuse_test

import (
	"testing"

	"github.com/weirhpc/weir/commands/clitest"
)

func TestMain(m *testing.M) { clitest.RunTests(m) }
