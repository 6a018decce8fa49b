"""Values and decisions; nothing here touches the machine."""
